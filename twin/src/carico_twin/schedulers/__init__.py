"""What places Pods in the twin: CARICO's own cycle, and what a user would pick in its place."""
