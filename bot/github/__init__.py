"""GitHub, and whatever speaks its API: identity, one repository, its clone. Nothing else in `bot` speaks to a forge."""
