"""The registry: every metric of the application, declared once, with its panel and its alert.

A metric is one declaration in the module of its subject; `registry.py` collects them. Nothing here
knows how metrics are exported, so that a command without Ray may declare its own as well.
"""
