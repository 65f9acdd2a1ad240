"""Cases by repository and kind: see case.py."""
