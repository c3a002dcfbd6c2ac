"""Tests of charts that the server draws."""
