"""`carico doctor`: what a cluster needs for CARICO, looked at before an install and when something is odd."""
