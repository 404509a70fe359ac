"""Bytes to domain and back."""
