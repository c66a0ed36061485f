"""The files of the page: modules that browsers load as they are, one style sheet, no build step."""
