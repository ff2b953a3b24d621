"""Pairs of many questions in one batch, formed when the device is free."""
