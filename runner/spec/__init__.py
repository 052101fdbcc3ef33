"""The kernel spec: its schema, its loader with faults at `file:line:column`, its expressions and its workloads."""
