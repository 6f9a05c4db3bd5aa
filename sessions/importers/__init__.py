"""Content that comes in as files: question banks in Markdown, plans in YAML."""
