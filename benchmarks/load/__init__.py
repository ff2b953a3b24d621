"""The load generator: open-loop arrivals against an HTTP server, measured from when they were due."""
