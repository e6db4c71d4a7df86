"""Live chat: conversations with the policy become training while they go on.

See docs/design/003-live-chat.md.
"""
