"""Agents trained, evaluated and compared from the command line."""
