"""Pure functions and small estimators: inputs in, new values out."""
