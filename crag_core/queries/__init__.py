"""Knowledge searching, the part that is pure: what to ask a wiki for, and which pages to believe."""
