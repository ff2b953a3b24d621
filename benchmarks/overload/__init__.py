"""Overload: three times what the server can do, from clients who give up and come back."""
