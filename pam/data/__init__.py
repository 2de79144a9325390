"""Data: from addresses and files to text, symbols and ids, in this order.

`registry` says what a data set is, `download` fetches it, `prepare` runs the stages of its kind of
task (`inflection`, `translation`), and `dataset` reads what they wrote.
"""
