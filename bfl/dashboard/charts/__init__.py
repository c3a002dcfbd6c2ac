"""Charts as SVG, made by the server: for the report, which opens without a program, and for pages without scripts."""
