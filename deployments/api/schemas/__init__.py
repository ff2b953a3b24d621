"""Requests and responses of every route: what is sent, checked, and answered; a file a route."""
