"""The Karpenter hook against Karpenter, live."""
