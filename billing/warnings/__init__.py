"""What members are warned of: the balance is low, a key comes near its limit, a payment or an automatic top-up failed.

A warning is a row, written in the transaction of what it is about. Its deliveries by mail and to webhook endpoints follow in
the background, each until it arrives or is given up.

- ``crossings``   whether an entry takes the balance below its threshold; the SQL that writes warnings
"""
