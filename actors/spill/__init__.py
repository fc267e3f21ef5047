"""The SSD tier: prefixes that survive restarts and crashes."""
