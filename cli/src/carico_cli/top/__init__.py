"""`carico top`: the screen of live signals."""
