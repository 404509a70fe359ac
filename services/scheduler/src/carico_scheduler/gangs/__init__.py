"""Gangs: Pods that are placed together or not at all. The placing itself is `decide.parties`.

- `gang`: one gang, its state, and the steps from one state to the next. Pure.
- `table`: which Pods belong to which gang, what each gang asks for, and which of its Pods are decided on. Pure.
- `keeper`: twice a second, tries waiting gangs again, and gives back what a gang holds that stays incomplete.
"""
