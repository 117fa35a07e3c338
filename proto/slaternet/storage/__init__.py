"""What survives a process: files, journals, checkpoints, state folders."""
