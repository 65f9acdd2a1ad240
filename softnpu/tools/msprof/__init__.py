"""msprof for the software NPU. Installed where CANN's own lies, beside the files that make the vendor's tables."""
