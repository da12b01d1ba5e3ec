"""Receipts in the user's own database: what makes an effect happen once, whatever queue delivers it."""

from duly.ledger.guard import exactly_once
from duly.ledger.ledger import Ledger
from duly.ledger.receipt import Receipt, current_receipt
from duly.ledger.sweep import Sweeper
from duly.ledger.values import HandOver, Issued, ReceiptState, ReceiptView, Swept

__all__ = [
    "HandOver",
    "Issued",
    "Ledger",
    "Receipt",
    "ReceiptState",
    "ReceiptView",
    "Sweeper",
    "Swept",
    "current_receipt",
    "exactly_once",
]
