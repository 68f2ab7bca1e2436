(program (lexical_declaration (variable_declarator name: (identifier) @name) @definition.variable))
(program (variable_declaration (variable_declarator name: (identifier) @name) @definition.variable))
(program (export_statement (lexical_declaration (variable_declarator name: (identifier) @name) @definition.variable)))
(program (export_statement (variable_declaration (variable_declarator name: (identifier) @name) @definition.variable)))
(variable_declarator name: (identifier) @name value: (object)) @scope
(variable_declarator name: (identifier) @name value: (class)) @definition.class
(variable_declarator name: (identifier) @name
  value: (call_expression arguments: (arguments [(arrow_function) (function_expression)]))) @definition.function
(assignment_expression left: (member_expression) @name right: [(class) (generator_function)]) @definition.class
(method_definition name: [(private_property_identifier) (computed_property_name (string))] @name) @definition.method
(call_expression function: (member_expression property: (property_identifier) @name)) @reference.call
(new_expression constructor: (member_expression property: (property_identifier) @name)) @reference.class
(arguments (identifier) @name) @reference.value
(variable_declarator value: (identifier) @name) @reference.value
(assignment_expression right: (identifier) @name) @reference.value
(pair value: (identifier) @name) @reference.value
(array (identifier) @name) @reference.value
(return_statement (identifier) @name) @reference.value
