"""The HTTP API: functions of Protocols, never Ray."""
