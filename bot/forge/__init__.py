"""The local forge: a stand-in for GitHub that speaks the part of its API that the bot uses."""
