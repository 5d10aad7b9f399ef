"""The reference: what plans mean, one row after the other, and how rows become lanes, groups, tails and batches.

Plain Python, slow and obvious. The engine is compared with it; nothing but tests uses it.
"""
