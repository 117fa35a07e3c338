"""`make reliability`: everything that shall not break is broken at length, and the figures are written down."""
