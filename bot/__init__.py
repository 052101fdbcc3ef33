"""The bot: campaigns, the agents that propose candidates, the evidence they learn from, and where winners are published."""
