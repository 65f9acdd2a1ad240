"""What helps programs written for other devices. Nothing here acts before it is imported by name."""
