"""Where candidates run. Every target stands behind the Protocols of `runner.targets.protocol`; the table is in `registry`."""
