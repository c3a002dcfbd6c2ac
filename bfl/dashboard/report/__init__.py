"""What is handed on: a report for somebody who does not program, and several runs beside each other."""
