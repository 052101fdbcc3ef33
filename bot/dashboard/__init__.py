"""What people see of a campaign: tables, plots, RESULTS.md."""
