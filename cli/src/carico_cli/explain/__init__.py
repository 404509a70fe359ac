"""`carico explain` and `carico capacity`: what the scheduler answers, in words."""
