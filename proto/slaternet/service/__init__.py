"""What every process of a game does alike: options, logs, joining, metrics, its start and its end."""
