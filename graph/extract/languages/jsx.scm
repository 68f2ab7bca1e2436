(jsx_opening_element name: (identifier) @name) @reference.value
(jsx_self_closing_element name: (identifier) @name) @reference.value
