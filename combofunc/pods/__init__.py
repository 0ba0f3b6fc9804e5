"""Pods of a ComboFunc or an InPlaceDeployment, and the next action on each. Pure and level-based.

Everything needed to continue is stored in the pods: the plan in labels and annotations (`combofunc.labels`),
the wanted resources in the spec. So a lost action is done again, an action done twice does no harm, and a new
leader continues from what it finds.
"""
