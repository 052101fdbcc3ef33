"""The judge: reads specs, builds and runs candidates in a sandbox, measures them, and gives a verdict.

`runner` never imports `bot`: it is all that a benchmark machine installs.
"""

__version__ = "0.1.0"
