"""`bfl sweep`, `bfl simulate --seeds`, `bfl compare`: several runs, made and shown together."""
