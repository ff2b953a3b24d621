"""What reads atomic pairs and sub-questions: small models, and rules where there are none."""
