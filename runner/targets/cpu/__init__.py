"""Target `cpu`: candidates are C++ built by g++, run in a sandboxed process, and timed by the judge's own clock."""
