"""Frozen records and plain rules; standard library and numpy only, no clock, no input or output."""
