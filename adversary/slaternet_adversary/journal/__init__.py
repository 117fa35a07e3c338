"""The adversary's journal: the events given to the referee, recorded before their effects leave the process."""
