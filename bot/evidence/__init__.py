"""What was tried and what it taught: the notebook of experiments, the lessons, and the test of novelty."""
