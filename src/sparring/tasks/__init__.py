"""Tasks: from examples to features, model, predictions and metrics. One task, one file."""
