"""The pure core: values and decisions. No driver, no clock, no thread."""
