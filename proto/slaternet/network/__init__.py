"""gRPC as the game uses it: servers, clients, streams, certificates."""
