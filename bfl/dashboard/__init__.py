"""The page (`bfl dashboard`): what a run or a network did, live and afterwards, in a browser."""
