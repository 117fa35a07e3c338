"""What we measure: `make bench`."""

from slaternet.service.library_defaults import set_library_defaults

set_library_defaults()  # numpy and gRPC as the game has them, before a module here imports them
